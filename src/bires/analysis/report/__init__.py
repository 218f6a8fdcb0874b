"""The report of runs or of a study: one HTML file that works offline, figures, and tables."""
