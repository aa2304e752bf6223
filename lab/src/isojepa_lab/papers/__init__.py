"""The studies, one folder per paper and one file per claim; README.md says what belongs where."""
