//! Stateful fakes of the systems Wardroom drives, held to recorded behaviour, with faults to order.
