"""Studies: named sets of populations that make the paper's figures, run, judged and drawn by one mechanism."""
