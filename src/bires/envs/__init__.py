"""Real Gymnasium environments, stepped in lockstep for a population."""
