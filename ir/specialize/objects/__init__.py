"""Objects of users' classes as values of their attributes."""
