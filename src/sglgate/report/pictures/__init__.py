"""Pictures as inline SVG: numbers in, text out; no style attribute, no id, no script, so that a page may forbid them.

``svg``      one element, escaped
``interval`` a value with its interval against its bound
``chart``    lines and points on two axes
``bars``     parts of a whole
``strip``    a quantity over time, in one low lane

Colours are classes of ``templates/pictures.css``, which has them for light and dark. Nothing is told by colour alone.
"""
