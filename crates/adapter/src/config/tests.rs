//! Configurations in both shapes, and the places of mistakes.
