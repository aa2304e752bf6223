"""Inputs that nobody should give, thousands of them: each must be refused in words of ours, or be taken well.

    python -m tests.fuzz --count 5000 --seed 0

makes them and counts what became of them. What failed is printed with the exact input.
"""
