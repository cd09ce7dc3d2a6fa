"""Views of each device: utilization, breakdown, idle gaps and their causes, launches."""
