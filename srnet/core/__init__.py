"""What every room uses: errors, files, sealed folders, names, progress, lazy imports, the device, the network."""
