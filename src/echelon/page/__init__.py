"""What people and monitors see of streams: pages, and metrics for Prometheus."""
