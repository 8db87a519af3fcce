"""Speed of servers: cells of load, arms launched in turn, blocks, and the verdict on them."""
