"""The checks of reformulations, by what they are about."""
