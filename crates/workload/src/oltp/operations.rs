//! sysbench's operations: which statements each is made of, and the kinds of all of them.

use plimsoll_core::{Call, KindId, OpKind, Params, ValueType};

use super::distribution::Distribution;
use super::tables::GROUP_DIGITS;
use crate::scramble::below;
use crate::script::Xoroshiro;

/// A statement of sysbench's `oltp_common.lua`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Begin,
    PointSelect,
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    /// The row that was just deleted.
    InsertSame,
    /// A new row.
    Insert,
    Commit,
}

impl What {
    /// Returns the name in those of steps.
    fn name(self) -> &'static str {
        match self {
            What::Begin => "begin",
            What::PointSelect => "point_select",
            What::SimpleRange => "simple_range",
            What::SumRange => "sum_range",
            What::OrderRange => "order_range",
            What::DistinctRange => "distinct_range",
            What::UpdateIndex => "update_index",
            What::UpdateNonIndex => "update_non_index",
            What::Delete => "delete",
            What::InsertSame | What::Insert => "insert",
            What::Commit => "commit",
        }
    }

    fn has_table(self) -> bool {
        !matches!(self, What::Begin | What::Commit)
    }

    /// Returns true if the statement reads rows that must exist.
    fn finds_rows(self) -> bool {
        use What::{Begin, Commit, Insert, InsertSame, SumRange};
        !matches!(self, Begin | Commit | Insert | InsertSame | SumRange)
    }

    fn call(self, table: usize) -> (Call, Vec<ValueType>) {
        use ValueType::{Int, Text};
        let range = format!("FROM sbtest{table} WHERE id BETWEEN $1 AND $2");
        let (sql, params) = match self {
            What::Begin => ("BEGIN".to_owned(), vec![]),
            What::Commit => ("COMMIT".to_owned(), vec![]),
            What::PointSelect => (format!("SELECT c FROM sbtest{table} WHERE id = $1"), vec![Int]),
            What::SimpleRange => (format!("SELECT c {range}"), vec![Int, Int]),
            What::SumRange => (format!("SELECT SUM(k) {range}"), vec![Int, Int]),
            What::OrderRange => (format!("SELECT c {range} ORDER BY c"), vec![Int, Int]),
            What::DistinctRange => (format!("SELECT DISTINCT c {range} ORDER BY c"), vec![Int, Int]),
            What::UpdateIndex => (format!("UPDATE sbtest{table} SET k = k + 1 WHERE id = $1"), vec![Int]),
            What::UpdateNonIndex => (format!("UPDATE sbtest{table} SET c = $1 WHERE id = $2"), vec![Text, Int]),
            What::Delete => (format!("DELETE FROM sbtest{table} WHERE id = $1"), vec![Int]),
            What::InsertSame => (
                format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES ($1, $2, $3, $4)"),
                vec![Int, Int, Text, Text],
            ),
            What::Insert => {
                (format!("INSERT INTO sbtest{table} (k, c, pad) VALUES ($1, $2, $3)"), vec![Int, Text, Text])
            }
        };
        let call = if self.finds_rows() { Call::SqlRow(sql) } else { Call::Sql(sql) };
        (call, params)
    }
}

/// Configuration that all clients share.
#[derive(Debug)]
pub(super) struct OltpConfig {
    pub(super) seed: u64,
    pub(super) tables: usize,
    pub(super) tries_max: u32,
    pub(super) range_size: i64,
    pub(super) ids: Distribution,
    /// Operations, in the order of their types.
    pub(super) operations: Vec<Operation>,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) statements: Vec<OltpStatement>,
    /// True if the operation is one statement on the only table, and needs no steps.
    pub(super) is_plain: bool,
    pub(super) retried: Option<KindId>,
    pub(super) rollback: Option<KindId>,
}

/// A statement of an operation.
#[derive(Debug)]
pub(super) struct OltpStatement {
    pub(super) what: What,
    /// A table is chosen for it; otherwise it asks the one of the statement before it.
    pub(super) new_table: bool,
    /// Operation types of the statement, by table.
    pub(super) kinds: Vec<KindId>,
}

/// The names of the operations, in the order of their kinds.
pub(super) const NAMES: &[&str] =
    &["point_select", "read_only", "read_write", "write_only", "update_index", "update_non_index", "insert", "delete"];

/// The statements of the operation `name`; each group asks one table.
fn groups(name: &str, params: &Params) -> Vec<Vec<What>> {
    let times = |what: &[What], count: &str| what.repeat(params.int(count).clamp(0, 1_000) as usize);
    let reads = || {
        [
            times(&[What::PointSelect], "point_selects"),
            times(&[What::SimpleRange], "simple_ranges"),
            times(&[What::SumRange], "sum_ranges"),
            times(&[What::OrderRange], "order_ranges"),
            times(&[What::DistinctRange], "distinct_ranges"),
        ]
    };
    let writes = || {
        [
            times(&[What::UpdateIndex], "index_updates"),
            times(&[What::UpdateNonIndex], "non_index_updates"),
            times(&[What::Delete, What::InsertSame], "delete_inserts"),
        ]
    };
    let mut groups: Vec<Vec<What>> = match name {
        "point_select" => return vec![vec![What::PointSelect]],
        "update_index" => return vec![vec![What::UpdateIndex]],
        "update_non_index" => return vec![vec![What::UpdateNonIndex]],
        "insert" => return vec![vec![What::Insert]],
        "delete" => return vec![vec![What::Delete]],
        "read_only" => reads().into(),
        "write_only" => writes().into(),
        _ => reads().into_iter().chain(writes()).collect(),
    };
    if !params.bool("skip_trx") {
        groups.insert(0, vec![What::Begin]);
        groups.push(vec![What::Commit]);
    }
    groups
}

/// All operations and their kinds.
pub(super) fn operations(params: &Params, tables: usize, tries_max: u32) -> (Vec<Operation>, Vec<OpKind>) {
    let kind = |name: String, (call, params): (Call, Vec<ValueType>), step_of: Option<KindId>| OpKind {
        step_of,
        ..OpKind::new(name, call, &params)
    };
    let mut operations: Vec<Operation> = Vec::new();
    let mut kinds: Vec<OpKind> = Vec::new();
    for name in NAMES {
        let groups = groups(name, params);
        let what = groups.first().and_then(|group| group.first()).copied();
        let single = what.filter(|_| groups.len() == 1 && tables == 1);
        // A reader never gives way.
        let plain = single.filter(|what| tries_max == 1 || *what == What::PointSelect);
        let call = plain.map_or((Call::Steps, Vec::new()), |what| what.call(1));
        kinds.push(kind((*name).to_owned(), call, None));
        let statements = groups
            .into_iter()
            .flat_map(|group| group.into_iter().enumerate())
            .map(|(position, what)| OltpStatement { what, new_table: position == 0 && what.has_table(), kinds: vec![] })
            .collect();
        operations.push(Operation { name, statements, is_plain: plain.is_some(), retried: None, rollback: None });
    }
    for (position, operation) in operations.iter_mut().enumerate().filter(|(_, operation)| !operation.is_plain) {
        let mut push = |kind: OpKind| {
            kinds.push(kind);
            (kinds.len() - 1) as KindId
        };
        if tries_max > 1 {
            operation.retried = Some(push(kind(format!("{} retried", operation.name), (Call::Steps, vec![]), None)));
        }
        let step_of = Some(position as KindId);
        let mut made: Vec<(What, Vec<KindId>)> = Vec::new();
        for statement in &mut operation.statements {
            let what = statement.what;
            if let Some((_, same)) = made.iter().find(|(other, _)| *other == what) {
                statement.kinds = same.clone();
                continue;
            }
            let numbers = if what.has_table() { 1..=tables } else { 1..=1 };
            statement.kinds = numbers
                .map(|table| {
                    let number = if what.has_table() && tables > 1 { format!(" {table}") } else { String::new() };
                    push(kind(format!("{}/{}{number}", operation.name, what.name()), what.call(table), step_of))
                })
                .collect();
            made.push((what, statement.kinds.clone()));
        }
        if operation.statements.iter().any(|statement| statement.what == What::Begin) {
            let rollback = (Call::Sql("ROLLBACK".to_owned()), vec![]);
            operation.rollback = Some(push(kind(format!("{}/rollback", operation.name), rollback, step_of)));
        }
    }
    (operations, kinds)
}

/// Appends `groups` groups of random digits with dashes between them, as sysbench's `###########-…`.
pub(super) fn write_digits(groups: u32, random: &mut Xoroshiro, out: &mut String) {
    const COUNT: u64 = 10u64.pow(GROUP_DIGITS);
    for group in 0..groups {
        if group > 0 {
            out.push('-');
        }
        // By hand: formatting a number costs more than all else that an operation is made of.
        let mut number = below(random.next(), COUNT);
        let mut digits = [b'0'; GROUP_DIGITS as usize];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        out.extend(digits.map(char::from));
    }
}
