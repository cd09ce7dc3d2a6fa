"""Files of AMD's profilers: rocprofv3's database (rocpd) and tables."""
