//! Plans as people write them, right and wrong.

mod book;
mod catalogue;
mod expansion;
mod fuzz;
mod mistakes;
mod outline;
mod schema;
mod series;
