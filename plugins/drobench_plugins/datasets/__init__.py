"""Every concrete dataset of this distribution, one module each."""
