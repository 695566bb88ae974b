//! Measured numbers in sentences: those with a unit of what is measured.

const UNITS: [&str; 14] =
    ["ns", "µs", "us", "ms", "s", "%", "ppm", "MIPS", "KiB", "MiB", "MB", "times", "packets/s", "pps"];

/// Each number with its unit, in the order of the text: `12 ns`, `20%`, `0.5ms`, and both of `0.5 to 2.1 %`.
pub(crate) fn measured(text: &str) -> Vec<(&str, &str)> {
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_start_matches(['(', '|', '*'])).collect();
    let mut found = Vec::new();
    for (at, word) in
        words.iter().enumerate().filter(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit()))
    {
        let end = word.find(|c: char| !c.is_ascii_digit() && !".,".contains(c));
        let (number, own) = end.map_or((*word, ""), |end| word.split_at(end));
        let next = |behind: usize| words.get(at + behind).copied().unwrap_or_default();
        let is_range = own.is_empty() && ["to", "and", "or"].contains(&next(1));
        // `12-20 ns`, `1.5x s`: the word as it is.
        let candidates = [(number, own), (*word, next(1)), (number, if is_range { next(3) } else { "" })];
        let bare = |unit: &'_ str| {
            UNITS.into_iter().find(|one| unit.trim_end_matches(['.', ',', ';', ':', ')', '|', '*']) == *one)
        };
        let measured = candidates.into_iter().find_map(|(number, unit)| Some((number, bare(unit)?)));
        found.extend(measured.map(|(number, unit)| (number.trim_end_matches(['.', ',']), unit)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_follows_them() {
        let found = measured(
            "It takes 12 ns. 20% more, a 0.5ms stop; (0.5 to 2.1 %), | 7 µs |, 1,979 of 5 s, 12-20 ns",
        );
        let expected = [
            ("12", "ns"),
            ("20", "%"),
            ("0.5", "ms"),
            ("0.5", "%"),
            ("2.1", "%"),
            ("7", "µs"),
            ("5", "s"),
            ("12-20", "ns"),
        ];
        assert_eq!(found, expected);
        assert_eq!(measured("Linux 6.18, 2 CPUs, RFC 8762 says"), []);
    }
}
