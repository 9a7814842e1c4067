//! Lines of a node's log, which may be large: no more of it is kept in memory than is printed at once.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use plimsoll_trial::TrialError;

/// Passes each line of `log` with its end to `print`, or only the last `lines`. Returns the length of the log in bytes.
///
/// # Errors
/// Errors of reading, as `failed` describes them, and those of `print`.
pub(super) fn each(
    log: &mut impl BufRead,
    lines: Option<usize>,
    failed: impl Fn(io::Error) -> TrialError,
    print: impl Fn(&[u8]) -> Result<(), TrialError>,
) -> Result<u64, TrialError> {
    let (mut kept, mut read) = (VecDeque::new(), 0);
    loop {
        let mut line = Vec::new();
        let bytes = log.read_until(b'\n', &mut line).map_err(&failed)?;
        if bytes == 0 {
            break;
        }
        read += bytes as u64;
        let Some(most) = lines else {
            print(&line)?;
            continue;
        };
        kept.push_back(line);
        if kept.len() > most {
            kept.pop_front();
        }
    }
    kept.iter().try_for_each(|line| print(line))?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_printed_or_all() {
        let log = b"a\nb\n\nc";
        for (lines, wanted) in [
            (None, vec!["a\n", "b\n", "\n", "c"]),
            (Some(2), vec!["\n", "c"]),
            (Some(9), vec!["a\n", "b\n", "\n", "c"]),
            (Some(0), vec![]),
        ] {
            let printed = RefCell::new(Vec::new());
            let print = |line: &[u8]| {
                printed.borrow_mut().push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            };
            let read = each(&mut &log[..], lines, |error| TrialError::usage(error.to_string()), print).unwrap();
            let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
            assert_eq!((read, printed.into_inner()), (6, wanted), "{lines:?}");
        }
    }
}
