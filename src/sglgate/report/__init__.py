"""What people look at, made from a run's evidence and from nothing else."""

from sglgate.report.board import Board, build_board
from sglgate.report.junit import junit_xml
from sglgate.report.markdown import markdown_summary
from sglgate.report.page import write_html
from sglgate.report.prometheus import openmetrics
from sglgate.report.text import summary_lines

__all__ = ["Board", "build_board", "junit_xml", "markdown_summary", "openmetrics", "summary_lines", "write_html"]
