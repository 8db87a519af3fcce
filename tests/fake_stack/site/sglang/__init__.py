"""Not SGLang: a stand-in that prints its log lines and answers its endpoints, for tests of the suite."""
