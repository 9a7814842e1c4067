//! `plimsoll cost`: what servers for a working set cost, bought and rented.

use std::io::ErrorKind;

use plimsoll_analysis::number;
use plimsoll_core::shown;
use plimsoll_plan::cost::{self, Cost};
use plimsoll_report::cells;
use plimsoll_report::document::{Table, numbers, words};
use plimsoll_trial::{TrialError, io_error};

use crate::args::CostArgs;
use crate::plans;
use crate::verbs::report;

/// Prints a table of the configurations in the file, or an example of such a file.
pub fn run(args: &CostArgs) -> Result<u8, TrialError> {
    let Some(path) = &args.prices else { return crate::print(cost::EXAMPLE) };
    let name = path.display().to_string();
    let next = "`plimsoll cost --example > prices.toml` writes a file of prices to change";
    let text = plans::text_of(path, plans::PLAN_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::NotFound => TrialError::usage(format!("there is no file {name}")).next(next),
        ErrorKind::Other => TrialError::usage(format!("{name} cannot be read as a file of prices: {error}")).next(next),
        _ => io_error(&name, &error),
    })?;
    let costs = cost::costs(&name, &text).map_err(|error| plans::drawn(&error))?;
    let head = ["copies", "servers", "to buy", "rent a month", "bought costs less after"].map(numbers);
    let mut table = Table::new("", [words("configuration")].into_iter().chain(head).collect());
    for Cost { name, copies, servers, buy, rent, months } in &costs.configurations {
        let money = |amount: f64| shown::clean(&format!("{}{}", costs.currency, number::count(amount.round() as u64)));
        let months = months.map_or("never".to_owned(), |months| format!("{} months", number::significant(months)));
        let count = number::count;
        table.row(cells![shown::clean(name), count(*copies), count(*servers), money(*buy), money(*rent), months]);
    }
    report::print_tables(&[("", "", table)])
}
