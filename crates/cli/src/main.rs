//! Under construction.
fn main(){}
