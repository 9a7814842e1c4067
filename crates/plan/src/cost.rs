//! Cost of keeping a working set: number of servers, price to buy and to rent, months until buying is cheaper.
//!
//! The input is a TOML file of sizes and prices, read as plans are: every mistake has its location.

use plimsoll_core::Catalogue;

use crate::document::{PlanNode, PlanReader, Section, ValueReader};
use crate::error::PlanError;
use crate::keys::{CONFIGURATION, COST, KeyType};
use crate::quantity::Dimension;

/// An example of a file of prices: three ways to keep 10.5 TB.
pub const EXAMPLE: &str = include_str!("cost.toml");

/// Greatest price of a server.
const PRICE_MAX: f64 = 1e12;

/// Costs of all configurations of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Text before amounts of money.
    pub currency: String,
    /// Costs, in the order of the file.
    pub configurations: Vec<Cost>,
}

/// Cost of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Name of the configuration.
    pub name: String,
    /// Number of copies of the working set.
    pub copies: u64,
    /// Servers of all copies.
    pub servers: u64,
    /// Price of all servers.
    pub buy: f64,
    /// Rent of all servers for a month.
    pub rent: f64,
    /// Months until bought servers have cost less than rented ones; `None` if they never do.
    pub months: Option<f64>,
}

/// Calculates the costs of the configurations in `text`; `name` is the file's, for messages.
///
/// # Errors
/// All mistakes in the text.
pub fn costs(name: &str, text: &str) -> Result<Costs, PlanError> {
    let (catalogue, files) = (Catalogue::default(), crate::no_files);
    let reader = PlanReader::new(name, text, &catalogue, &files);
    let costs = reader.root(text, |root| reader.costs(root));
    reader.result(name, costs.flatten())
}

impl PlanReader<'_> {
    fn costs(&self, root: &toml_edit::Table) -> Option<Costs> {
        let root = Section { what: "the file of prices".to_owned(), table: root, span: 0..0, keys: &[COST] };
        self.known_keys(&root);
        let working_set = self.needed(&root, "working_set", "`working_set = \"11TB\"`", Self::bytes);
        let currency = self.value(&root, "currency", |this, node, _| this.text(node).map(str::to_owned));
        let node = self.required(&root, "configuration", "[[configuration]], and below it servers and prices")?;
        let tables = self.tables(&node)?;
        if tables.is_empty() {
            let help = "write [[configuration]], and below it servers and prices".to_owned();
            return self.refuse(node.span, "the file of prices has no configuration", Some(help));
        }
        // Mistakes in all of them are reported.
        let read: Vec<Option<Cost>> = tables.iter().map(|table| self.configuration(table, working_set)).collect();
        Some(Costs { currency: currency?, configurations: read.into_iter().collect::<Option<_>>()? })
    }

    /// Reads a configuration, and calculates its cost; `None` after a mistake, there or in `working_set`.
    fn configuration(&self, table: &PlanNode<'_>, working_set: Option<u64>) -> Option<Cost> {
        let section = self.section(table, "a configuration", &[CONFIGURATION])?;
        let whole = |key, example| self.needed(&section, key, example, Self::whole);
        let price = |key, example| self.needed(&section, key, example, Self::price);
        let name = self.needed(&section, "name", "`name = \"two large servers\"`", |this, node, _| {
            this.text(node).map(str::to_owned)
        });
        let (copies, discs) = (whole("copies", "`copies = 2`"), whole("discs", "`discs = 4`, of a server"));
        let disc_size = self.needed(&section, "disc_size", "`disc_size = \"4TB\"`", Self::bytes);
        let [boot, parity] = ["boot_discs", "parity_discs"].map(|key| self.value(&section, key, Self::whole));
        let buy = price("buy", "`buy = 1500`, the price of a server");
        let rent = price("rent", "`rent = 400`, of a server for a month");
        let upkeep = self.value(&section, "upkeep", Self::price);
        let (discs, other) = (discs?, boot? + parity?);
        if other >= discs {
            let what = format!("of {discs} discs {other} are for boot and parity: none is left for data");
            return self.refuse(section.key_span("discs"), what, Some("write more `discs`".to_owned()));
        }
        let copies = copies?;
        let servers = copies.saturating_mul(working_set?.div_ceil((discs - other).saturating_mul(disc_size?)));
        let (buy, rent, upkeep) = (buy? * servers as f64, rent? * servers as f64, upkeep? * servers as f64);
        let months = (rent > upkeep).then(|| buy / (rent - upkeep));
        Some(Cost { name: name?, copies, servers, buy, rent, months })
    }

    /// Reads the value of a required key; `example` is what to write if it is missing.
    fn needed<T>(&self, section: &Section<'_>, key: &str, example: &str, read: ValueReader<Self, T>) -> Option<T> {
        self.required(section, key, example)?;
        self.value(section, key, read)
    }

    fn bytes(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<u64> {
        let bytes = self.quantity(node, Dimension::Size)?;
        if bytes >= 1.0 {
            return Some(bytes as u64);
        }
        self.refuse(node.span.clone(), format!("`{}` must be more than nothing", node.key), None)
    }

    fn price(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<f64> {
        let price = self.number(node)?;
        if price > PRICE_MAX {
            let help = Some("write the price of one server, 1e12 at most".to_owned());
            return self.refuse(
                node.span.clone(),
                format!("`{}` is too great: {}", node.key, self.written(node)),
                help,
            );
        }
        if price >= 0.0 {
            return Some(price);
        }
        let help = Some("write an amount of money without a sign".to_owned());
        self.refuse(node.span.clone(), format!("`{}` must be 0 or more, not {price}", node.key), help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_configurations_cost_what_was_published() {
        let costs = costs("example", EXAMPLE).unwrap();
        // Published figures are whole hundreds.
        let hundreds = |amount: f64| (amount / 100.0).round() as u64 * 100;
        let found = costs.configurations.iter().map(|cost| (cost.servers, hundreds(cost.buy), hundreds(cost.rent)));
        assert!(found.eq([(2, 50_000, 4_700), (28, 43_300, 12_000), (42, 64_900, 18_000)]), "{costs:?}");
        let months: Vec<String> =
            costs.configurations.iter().map(|cost| format!("{:.1}", cost.months.unwrap())).collect();
        assert_eq!(months, ["10.6", "3.6", "3.6"]);
    }

    #[test]
    fn a_working_set_that_just_does_not_fit_needs_one_more_server_a_copy() {
        let of = |size: &str| costs("test", &EXAMPLE.replace("10.5TB", size)).unwrap();
        let servers = |size: &str| of(size).configurations.iter().map(|cost| cost.servers).collect::<Vec<_>>();
        assert_eq!(servers("10500000000001B"), [2, 30, 45]);
        assert_eq!(servers("11TB"), [2, 30, 45]);
        assert_eq!(servers("11000000000001B"), [4, 30, 45]);
    }

    #[test]
    fn prices_that_no_server_has_are_refused() {
        let wrong = |buy: &str| {
            let error = costs("test", &EXAMPLE.replace("buy = 25_000", &format!("buy = {buy}"))).unwrap_err();
            error.problems()[0].what().to_owned()
        };
        assert_eq!(wrong("1e300"), "`buy` is too great: 1e300");
        assert_eq!(wrong("nan"), "`buy` must be a number with a finite value, not nan");
        assert_eq!(wrong("-1"), "`buy` must be 0 or more, not -1");
    }

    #[test]
    fn upkeep_delays_the_month_and_can_prevent_it() {
        let with =
            |upkeep: &str| costs("test", &EXAMPLE.replace("buy =", &format!("upkeep = {upkeep}\nbuy ="))).unwrap();
        let months = |upkeep: &str| with(upkeep).configurations.iter().map(|cost| cost.months).collect::<Vec<_>>();
        assert_eq!(months("350")[0], Some(12.5));
        assert_eq!(months("429")[1..], [None, None]);
    }

    #[test]
    fn each_mistake_has_a_message() {
        for (right, wrong, what, help) in [
            (
                "working_set = \"10.5TB\"",
                "",
                "the file of prices needs `working_set`",
                "write `working_set = \"11TB\"`",
            ),
            (
                "\"10.5TB\"",
                "10.5",
                "`working_set = 10.5` needs a unit: \"10.5MiB\"",
                "units of size: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
            ),
            ("\"10.5TB\"", "\"0TB\"", "`working_set` must be more than nothing", ""),
            ("buy = 25_000\n", "", "a configuration needs `buy`", "write `buy = 1500`, the price of a server"),
            (
                "rent = 2_350",
                "rent = -2_350",
                "`rent` must be 0 or more, not -2350",
                "write an amount of money without a sign",
            ),
            ("rent = 2_350", "rent = \"$2350\"", "`rent` must be a number, not the text \"$2350\"", ""),
            (
                "buy = 25_000",
                "buy = 25_000\nbui = 1",
                "unknown key `bui` in a configuration",
                "did you mean `buy`? keys here: name, copies, discs, disc_size, boot_discs, parity_discs, buy, rent, upkeep",
            ),
            (
                "discs = 48",
                "discs = 4",
                "of 4 discs 4 are for boot and parity: none is left for data",
                "write more `discs`",
            ),
            (
                "copies = 3",
                "copies = 0",
                "`copies` must be 1 to 100, not 0",
                "write a whole number in these limits, such as 1",
            ),
        ] {
            let error = costs("prices.toml", &EXAMPLE.replacen(right, wrong, 1)).unwrap_err();
            let [problem] = error.problems() else { panic!("{wrong}: {error:?}") };
            assert_eq!((problem.what(), problem.help().unwrap_or_default()), (what, help), "{wrong}");
            assert_eq!(problem.source_name(), "prices.toml");
        }
        let nothing = costs("prices.toml", "working_set = \"1TB\"\nconfiguration = []").unwrap_err();
        assert_eq!(nothing.to_string(), "the file of prices has no configuration");
        assert!(costs("prices.toml", "=").unwrap_err().to_string().starts_with("this is not TOML"));
    }
}
