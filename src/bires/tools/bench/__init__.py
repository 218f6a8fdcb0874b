"""What this machine can do, measured side by side in one run."""
