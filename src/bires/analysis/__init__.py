"""Curves to numbers and pictures.

May import: `training` and above. What leaves it: statistics, summaries, figures, exporters, the HTML report.
"""
