"""The admin address: health, what is live, and the orders of operators."""
