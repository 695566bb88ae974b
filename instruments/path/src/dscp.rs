//! Differentiated services code points by name (RFC 2474, 2597, 3246, 5865, 8622).

/// Names that are no class with a number.
const NAMES: [(&str, u8); 5] = [("be", 0), ("df", 0), ("le", 1), ("va", 44), ("ef", 46)];

/// Reads `ef`, `af41`, `cs3`, `be` or a number from 0 to 63.
///
/// # Errors
/// A sentence, where it is none of these.
pub(crate) fn parse(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_lowercase();
    let digits = |text: &str| -> Option<Vec<u8>> {
        text.chars().map(|digit| digit.to_digit(10).and_then(|digit| u8::try_from(digit).ok())).collect()
    };
    let class = match (name.strip_prefix("cs").and_then(digits), name.strip_prefix("af").and_then(digits)) {
        (Some(class), _) if class.len() == 1 && class[0] <= 7 => Some(class[0] * 8),
        (_, Some(class))
            if class.len() == 2 && (1..=4).contains(&class[0]) && (1..=3).contains(&class[1]) =>
        {
            Some(class[0] * 8 + class[1] * 2)
        }
        _ => None,
    };
    let named = || NAMES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    let number = || name.parse().ok().filter(|code| *code < 64);
    class
        .or_else(named)
        .or_else(number)
        .ok_or_else(|| format!("`{text}` is no DSCP: give 0 to 63, or a name such as be, cs1, af41 or ef"))
}

/// Its name; a number where it has none.
pub(crate) fn name(code: u8) -> String {
    if let Some((name, _)) = NAMES.iter().find(|(_, named)| *named == code) {
        return (*name).to_owned();
    }
    match (code / 8, code % 8) {
        (class, 0) => format!("cs{class}"),
        (class @ 1..=4, drop @ (2 | 4 | 6)) => format!("af{class}{}", drop / 2),
        _ => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_name_which_reads_as_it() {
        for code in 0..64 {
            assert_eq!(
                (parse(&name(code)), parse(&code.to_string())),
                (Ok(code), Ok(code)),
                "{}",
                name(code)
            );
        }
        let known = [("EF", 46), ("af41", 34), ("af13", 14), ("cs6", 48), ("be", 0), ("le", 1), ("va", 44)];
        for (text, code) in known {
            assert_eq!(parse(text), Ok(code), "{text}");
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        for text in ["64", "-1", "", "cs8", "cs", "af51", "af14", "af4", "af411", "voice", "4.5"] {
            assert!(parse(text).unwrap_err().contains("no DSCP"), "{text}");
        }
    }
}
