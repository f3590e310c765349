#!/usr/bin/env python3
from tfbaselines.run import console

if __name__ == "__main__":
    console()
