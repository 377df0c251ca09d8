"""From scans to tasks, and the other methods that fMRI researchers use."""
