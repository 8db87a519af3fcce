"""Is this machine fit to judge? Pure functions from what a node answers to checks, of which the suite makes gates."""
