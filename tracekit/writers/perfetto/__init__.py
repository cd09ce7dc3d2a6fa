"""Native Perfetto traces (TrackEvent protobuf)."""
