"""What Prometheus reads of the service."""
