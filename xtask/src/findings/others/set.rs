//! Data sets as `convert.py` writes them.

use std::ops::Range;

use crate::Result;

/// Name of the column with the region.
const REGION: &str = "abnormal";

/// Readings of a server before, during and after an anomaly.
#[derive(Debug, PartialEq)]
pub struct Set {
    /// Source: `dbsherlock` or `dbpa`.
    pub source: String,
    /// Anomalies: several of a compound one.
    pub classes: Vec<String>,
    /// Time between two readings, in seconds.
    pub step_s: f64,
    /// Names of the columns, and their values in order of time; `None` if unknown.
    pub columns: Vec<(String, Vec<Option<f64>>)>,
    /// Readings of the anomaly.
    pub region: Range<usize>,
}

/// Reads a data set. Readings that are in no region are left out.
///
/// # Errors
/// Fails with the line if the text is no such table, and if the region is empty, everything, or in several parts.
pub fn parse(text: &str) -> Result<Set> {
    let mut set = Set { source: String::new(), classes: Vec::new(), step_s: 0.0, columns: Vec::new(), region: 0..0 };
    let mut is_abnormal: Vec<bool> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        let mut cells = line.split(',');
        if let Some(comment) = line.strip_prefix("# ") {
            let (key, value) = comment.split_once(": ").ok_or_else(|| wrong("has no key"))?;
            match key {
                "source" => value.clone_into(&mut set.source),
                "class" => set.classes.push(value.to_owned()),
                "step_s" => set.step_s = value.parse().map_err(|_| wrong("has no number"))?,
                _ => return Err(wrong("has an unknown key")),
            }
        } else if set.columns.is_empty() {
            if cells.next() != Some(REGION) {
                return Err(wrong(&format!("does not begin with the column {REGION}")));
            }
            set.columns = cells.map(|name| (name.to_owned(), Vec::new())).collect();
        } else {
            match cells.next() {
                Some("1") => is_abnormal.push(true),
                Some("0") => is_abnormal.push(false),
                Some("") => continue,
                _ => return Err(wrong(&format!("has no mark in the column {REGION}"))),
            }
            for (_, values) in &mut set.columns {
                let cell = cells.next().ok_or_else(|| wrong("has too few cells"))?;
                let value = if cell.is_empty() { Ok(None) } else { cell.parse::<f64>().map(Some) };
                values.push(value.map_err(|_| wrong("has a cell that is no number"))?);
            }
            if cells.next().is_some() {
                return Err(wrong("has too many cells"));
            }
        }
    }
    if set.source.is_empty() || set.classes.is_empty() || set.step_s <= 0.0 {
        return Err("the lines `# source:`, `# class:` and `# step_s:` are missing".to_owned());
    }
    set.region = region(&is_abnormal)?;
    Ok(set)
}

fn region(is_abnormal: &[bool]) -> Result<Range<usize>> {
    let of_region = |is_abnormal: &&bool| **is_abnormal;
    let length = is_abnormal.iter().filter(of_region).count();
    let first = is_abnormal.iter().position(|is_abnormal| *is_abnormal).unwrap_or_default();
    let is_one_part = is_abnormal.iter().skip(first).take_while(of_region).count() == length;
    match length {
        0 => Err("no reading is abnormal".to_owned()),
        _ if length == is_abnormal.len() => Err("no reading is normal".to_owned()),
        _ if !is_one_part => Err("the region has several parts".to_owned()),
        _ => Ok(first..first + length),
    }
}

impl Set {
    /// Returns the values of a column; `None` without it.
    pub fn column(&self, name: &str) -> Option<&[Option<f64>]> {
        self.columns.iter().find(|(own, _)| own == name).map(|(_, values)| values.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# source: dbpa\n# class: lock waits\n# step_s: 5\nabnormal,mysql5 locks Locks,procs run\n";

    #[test]
    fn a_set_has_its_classes_its_columns_and_its_region_without_other_readings() {
        let set = parse(&format!("{HEAD}0,1,2\n,90,90\n1,3.5,\n1,4,5\n0,-1e3,6\n")).unwrap();
        assert_eq!((set.source.as_str(), set.step_s, set.region.clone()), ("dbpa", 5.0, 1..3));
        assert_eq!(set.classes, ["lock waits"]);
        assert_eq!(set.column("mysql5 locks Locks").unwrap(), [Some(1.0), Some(3.5), Some(4.0), Some(-1000.0)]);
        assert_eq!(set.column("procs run").unwrap(), [Some(2.0), None, Some(5.0), Some(6.0)]);
        assert_eq!(set.column("procs"), None);
    }

    #[test]
    fn a_broken_set_is_refused_with_its_line() {
        for (rows, what) in [
            ("0,1\n1,2,3\n", "line 5: has too few cells"),
            ("0,1,2,3\n", "line 5: has too many cells"),
            ("0,1,2\n1,x,3\n", "line 6: has a cell that is no number"),
            ("2,1,2\n", "line 5: has no mark in the column abnormal"),
            ("0,1,2\n", "no reading is abnormal"),
            ("1,1,2\n", "no reading is normal"),
            ("1,1,2\n0,1,2\n1,1,2\n", "the region has several parts"),
            ("# other: 3\n", "line 5: has an unknown key"),
        ] {
            assert_eq!(parse(&format!("{HEAD}{rows}")).unwrap_err(), what, "{rows}");
        }
        let without = parse("abnormal,a\n0,1\n1,2\n").unwrap_err();
        assert!(without.ends_with("are missing"), "{without}");
        assert_eq!(parse("a,b\n").unwrap_err(), "line 1: does not begin with the column abnormal");
    }
}
