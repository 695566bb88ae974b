//! Panics of the Parquet library, which some damaged files cause: to callers they are errors as any other.

use crate::error::StoreError;
use parquet::errors::ParquetError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

thread_local! {
    static CONTAINING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, now, becomes an error of the store. A panic hook that asks this need not print it.
pub fn is_containing() -> bool {
    CONTAINING.get()
}

/// What `read` gives, which reads the file at `path` and does nothing else.
///
/// # Errors
/// The library refused the file, or panicked: then the file is damaged.
pub(crate) fn contained<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, StoreError> {
    CONTAINING.set(true);
    // What a panic leaves half done is the library's reader of this file, which nobody uses after the error.
    let outcome = catch_unwind(AssertUnwindSafe(read));
    CONTAINING.set(false);
    match outcome {
        Ok(read) => read.map_err(|e| StoreError::parquet("read", path, e)),
        Err(panic) => {
            let text =
                panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
            let reason = format!("it cannot be decoded ({})", text.unwrap_or("no reason given"));
            Err(StoreError::Shape { path: path.to_owned(), reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_damaged_file_and_the_next_reading_is_not_affected() {
        let path = Path::new("/runs/x/samples.parquet");
        let reason = |text: String| {
            let error = contained::<()>(path, || {
                assert!(is_containing());
                std::panic::panic_any(text)
            });
            let Err(StoreError::Shape { reason, path: found }) = error else { panic!("{error:?}") };
            assert_eq!(found, path);
            reason
        };
        assert_eq!(reason("range end 9".to_owned()), "it cannot be decoded (range end 9)");
        let error = contained::<()>(path, || panic!("index")).unwrap_err();
        assert!(
            error.is_bad_input()
                && error.to_string().contains("it cannot be decoded (index); the file is damaged")
        );
        let error = contained::<()>(path, || std::panic::panic_any(7)).unwrap_err();
        assert!(error.to_string().contains("(no reason given)"));
        assert!(!is_containing());
        assert_eq!(contained(path, || Ok(5)).unwrap(), 5);
        let refused = contained::<()>(path, || Err(ParquetError::EOF("cut".to_owned()))).unwrap_err();
        assert!(matches!(refused, StoreError::Parquet { operation: "read", .. }));
    }
}
