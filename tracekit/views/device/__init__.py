"""What each device did: utilization, breakdown, idle gaps and their causes, launches."""
