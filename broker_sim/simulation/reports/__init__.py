"""What a run that failed tells: which records are in question and who had them, how the world stood, where a run beside it parts."""
