//! Reading of files that users name.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Returns the contents of a file, which may be a pipe.
///
/// # Errors
/// Errors of the operating system; `FileTooLarge` if it has more than `bytes_max`, as a device without end does.
pub fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {} KiB", bytes_max >> 10))),
        false => Ok(bytes),
    }
}

/// Returns the contents of a file of text, as [`read_at_most`] does, without a byte order mark.
///
/// # Errors
/// Those of [`read_at_most`]; `InvalidData` if it is not UTF-8.
pub fn text_at_most(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_at_most(path, bytes_max)?)
        .map(without_mark)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Removes the byte order mark that some editors write at the start of a text.
pub fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_at_the_start_is_no_text() {
        for (text, without) in [("\u{feff}a\u{feff}", "a\u{feff}"), ("a", "a"), ("", "")] {
            assert_eq!(without_mark(text.to_owned()), without);
        }
    }

    #[test]
    fn a_device_without_end_is_refused_and_a_file_as_large_as_allowed_is_read() {
        let error = read_at_most(Path::new("/dev/zero"), 1 << 16).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 64 KiB");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let size = own.metadata().unwrap().len();
        assert_eq!(text_at_most(&own, size).unwrap().len() as u64, size);
        assert!(text_at_most(&own, size - 1).is_err());
    }
}
