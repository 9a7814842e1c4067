//! Reading a file of `/proc` again and again: opened once, into a buffer that is kept.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use plimsoll_core::Unavailable;

/// Most bytes that are read of one file. `/proc/stat` of a host with 1,024 cores has some 150 KiB.
const TEXT_MAX_BYTES: usize = 4 << 20;

/// An open file of `/proc` or `/sys`.
#[derive(Debug)]
pub(crate) struct ProcFile {
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    /// Opens `path`; the error says which.
    pub(crate) fn open(path: &str) -> Result<Self, Unavailable> {
        match File::open(path) {
            Ok(file) => Ok(Self::new(file)),
            Err(error) => Err(Unavailable(format!("{path}: {error}"))),
        }
    }

    pub(crate) fn new(file: File) -> Self {
        Self { file, buffer: vec![0; 4096] }
    }

    /// Opens `path` and reads it for the first time; the error says which it is.
    pub(crate) fn open_and_read(path: &str) -> Result<(Self, String), Unavailable> {
        let mut file = Self::open(path)?;
        let text = file.read().map_err(|error| Unavailable(format!("{path}: {error}")))?.into_owned();
        Ok((file, text))
    }

    /// Reads the present text.
    pub(crate) fn read(&mut self) -> io::Result<Cow<'_, str>> {
        let mut length = 0;
        loop {
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(bytes) => length += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if length == self.buffer.len() {
                if length >= TEXT_MAX_BYTES {
                    break;
                }
                self.buffer.resize(length * 2, 0);
            }
        }
        // Names of processes may be any bytes.
        Ok(String::from_utf8_lossy(&self.buffer[..length]))
    }
}

/// The number behind `name` in a text of such lines, in its own unit.
pub(crate) fn number_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split([':', ' ']).next() == Some(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The numbers that a line's fields begin with, at most `N`, and how many there are.
pub(crate) fn numbers<'a, const N: usize>(fields: impl Iterator<Item = &'a str>) -> ([u64; N], usize) {
    let (mut numbers, mut count) = ([0; N], 0);
    for (place, number) in numbers.iter_mut().zip(fields.map_while(|field| field.parse().ok())) {
        *place = number;
        count += 1;
    }
    (numbers, count)
}

#[cfg(test)]
pub(crate) use tests::garbled;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Captured texts, cut off and garbled in many ways, for parsers that must take anything.
    pub(crate) fn garbled(text: &str) -> impl Iterator<Item = String> {
        let bytes = text.as_bytes();
        let cut = (0..bytes.len()).step_by(1 + bytes.len() / 300).map(|end| bytes[..end].to_vec());
        let replacements = [" ", "\n", "-1", "x", "99999999999999999999999999", ":", "", ")", "0.5", "\u{fffd}"];
        let changed = (0..600).map(move |step| {
            let at = step * 7_919 % bytes.len().max(1);
            let end = (at + 1 + step % 5).min(bytes.len());
            [&bytes[..at], replacements[step % replacements.len()].as_bytes(), &bytes[end..]].concat()
        });
        cut.chain(changed).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole_each_time() {
        let mut file = tempfile::tempfile().unwrap();
        let text = "0123456789\n".repeat(3_000);
        file.write_all(text.as_bytes()).unwrap();
        let mut reader = ProcFile::new(file.try_clone().unwrap());
        assert_eq!(reader.read().unwrap(), text);
        file.set_len(5).unwrap();
        assert_eq!(reader.read().unwrap(), "01234");
    }
}
