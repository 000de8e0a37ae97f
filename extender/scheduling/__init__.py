"""What each verb of the webhook means in terms of the scheduling framework. No I/O."""
