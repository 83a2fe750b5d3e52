"""What happens to a request on its way: journal, faults, order."""
