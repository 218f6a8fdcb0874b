"""Planning: learning from transitions that a model imagined."""
