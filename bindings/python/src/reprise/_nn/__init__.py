"""What reprise.nn is made of: the library, the rules of its functions, and formulas of NumPy."""
