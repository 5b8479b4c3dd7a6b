"""The pages: one module for each, with its routes."""
