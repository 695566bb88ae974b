//! Pseudonyms: the same value has the same one in all files of a run. They are counted in the order of appearance, so nothing
//! of a value can be computed from its pseudonym.

use super::fields::{KERNEL_FUNCTIONS, KERNEL_THREADS, PASSED_OVER};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Words of Quaver's own sentences and keys. One that is missing here costs a pseudonym in a sentence and nothing else.
const VOCABULARY: &str = include_str!("words.txt");
/// Words by which Quaver describes a place in a program; the names beside them are the program's.
const OF_PLACES: &str =
    "C library lock heap stack vdso anonymous memory inlined in main made used at thread not known";
/// First pseudonym of an address: the block for tests between networks (RFC 2544).
const FIRST_IPV4: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// The block for documents (RFC 3849).
const FIRST_IPV6: u128 = 0x2001_0db8 << 96;

/// All pseudonyms of a run.
pub(super) struct Pseudonyms {
    vocabulary: HashSet<&'static str>,
    of_places: HashSet<&'static str>,
    functions: HashSet<&'static str>,
    names: HashMap<String, String>,
    /// Values of several words, by their first letter, the longest first.
    phrases: HashMap<char, Vec<String>>,
    addresses: HashMap<IpAddr, IpAddr>,
    hardware: HashMap<String, String>,
}

impl Pseudonyms {
    pub(super) fn new() -> Self {
        Self {
            vocabulary: VOCABULARY.split_whitespace().collect(),
            of_places: OF_PLACES.split_whitespace().collect(),
            functions: KERNEL_FUNCTIONS.split_whitespace().collect(),
            names: HashMap::new(),
            phrases: HashMap::new(),
            addresses: HashMap::new(),
            hardware: HashMap::new(),
        }
    }

    /// How many values were replaced, by what they are.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("names", self.names.len()),
            ("addresses", self.addresses.len() + self.hardware.len()),
        ])
    }

    /// Of a whole value.
    pub(super) fn private(&mut self, value: &str) -> String {
        if let Ok(address) = value.parse::<IpAddr>() {
            return self.address(address).to_string();
        }
        if let Ok(socket) = value.parse::<SocketAddr>() {
            return SocketAddr::new(self.address(socket.ip()), socket.port()).to_string();
        }
        let next = format!("name-{}", self.names.len() + 1);
        self.known_as(value, next)
    }

    /// Of the name of a thread. The kernel's own are what causes are named by: what it works on is replaced in them.
    pub(super) fn thread(&mut self, name: &str) -> String {
        match KERNEL_THREADS.iter().find(|start| name.starts_with(**start)) {
            Some(start) => format!("{start}{}", self.sentence(&name[start.len()..])),
            None => self.private(name),
        }
    }

    /// Of a function of the kernel.
    pub(super) fn symbol(&mut self, name: &str) -> String {
        let head = name.split(['.', '+']).next().unwrap_or(name);
        if self.functions.contains(head) {
            return name.to_owned();
        }
        match PASSED_OVER.iter().find(|start| name.starts_with(**start)) {
            Some(start) => {
                let next = format!("{start}name-{}", self.names.len() + 1);
                self.known_as(name, next)
            }
            None => self.private(name),
        }
    }

    /// Of a command line of Quaver: what it is without the values of options and the words of other programs.
    pub(super) fn command(&self, line: &str) -> String {
        let known = |word: &&str| {
            !word.contains('/') && word.split('-').all(|part| part.is_empty() || self.is_own(part))
        };
        // Where the program lay says whose machine it was.
        let line = line
            .split_once(' ')
            .map_or(line, |(program, _)| &line[program.rfind('/').map_or(0, |slash| slash + 1)..]);
        let words = line.split(' ').take_while(|word| *word != "--");
        let verbs = words.clone().take_while(|word| !word.starts_with('-')).take(3).filter(known);
        let options = words.filter_map(|word| word.starts_with("--").then(|| word.split('=').next())?);
        verbs.chain(options.filter(known)).collect::<Vec<_>>().join(" ")
    }

    /// Of a sentence of Quaver's own: words that it does not use itself, and values that were replaced elsewhere.
    pub(super) fn sentence(&mut self, text: &str) -> String {
        self.words(text, |own, word| own.is_own(word) || own.functions.contains(word))
    }

    /// Of names in Quaver's own form.
    pub(super) fn names(&mut self, text: &str) -> String {
        self.words(text, |own, word| own.of_places.contains(word) || is_number(word))
    }

    /// Of a key that no document has by itself.
    pub(super) fn key(&mut self, key: &str) -> String {
        match key.split(['_', '-', '.']).all(|part| self.is_own(part)) {
            true => key.to_owned(),
            false => self.private(key),
        }
    }

    fn words(&mut self, text: &str, keeps: impl Fn(&Self, &str) -> bool) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        let mut begins = true;
        while let Some(letter) = rest.chars().next() {
            let found = self.phrase_at(rest).or_else(|| begins.then(|| self.address_at(rest))?);
            let length = match found {
                Some((length, instead)) => {
                    out.push_str(&instead);
                    length
                }
                None if is_of_word(letter) => {
                    let length = word_length(rest);
                    let word = &rest[..length];
                    match self.names.get(word) {
                        Some(instead) => out.push_str(instead),
                        None if keeps(self, word) => out.push_str(word),
                        None => out.push_str(&self.private(word)),
                    }
                    length
                }
                None => {
                    out.push(letter);
                    letter.len_utf8()
                }
            };
            begins = !rest[..length].ends_with(is_of_word);
            rest = &rest[length..];
        }
        out
    }

    fn known_as(&mut self, value: &str, pseudonym: String) -> String {
        // A single letter is in too many words to be looked for, and a number is not private by itself.
        if !value.chars().any(char::is_alphabetic) || value.chars().count() < 2 {
            return if value.is_empty() { String::new() } else { "name-0".to_owned() };
        }
        if let Some(known) = self.names.get(value) {
            return known.clone();
        }
        if !value.chars().all(is_of_word) {
            let first = value.chars().next().expect("it has letters");
            let same = self.phrases.entry(first).or_default();
            same.push(value.to_owned());
            same.sort_by_key(|phrase| std::cmp::Reverse(phrase.len()));
        }
        self.names.insert(value.to_owned(), pseudonym.clone());
        pseudonym
    }

    /// A value of several words at the beginning of a text, with its length.
    fn phrase_at(&self, text: &str) -> Option<(usize, String)> {
        let ends = |phrase: &str| {
            let next = text[phrase.len()..].chars().next();
            !phrase.ends_with(is_of_word) || !next.is_some_and(is_of_word)
        };
        let phrases = self.phrases.get(&text.chars().next()?)?;
        let found = phrases.iter().find(|phrase| text.starts_with(phrase.as_str()) && ends(phrase))?;
        Some((found.len(), self.names.get(found)?.clone()))
    }

    /// An address at the beginning of a text, with its length. The name of a run, whose parts look like none of our words, is kept.
    fn address_at(&mut self, text: &str) -> Option<(usize, String)> {
        if is_stamp(text) {
            return Some((STAMP.len(), text[..STAMP.len()].to_owned()));
        }
        let run = |of: fn(char) -> bool| {
            text.split(|letter| !of(letter)).next().unwrap_or_default().trim_end_matches(['.', ':'])
        };
        let decimal = run(|letter| letter.is_ascii_digit() || letter == '.');
        let hexadecimal = run(|letter| letter.is_ascii_hexdigit() || letter == ':' || letter == '.');
        let ends = |found: &&str| !text[found.len()..].starts_with(is_of_word);
        if let Some(address) = Some(decimal).filter(ends).and_then(|text| text.parse::<Ipv4Addr>().ok()) {
            return Some((decimal.len(), self.address(address.into()).to_string()));
        }
        let hexadecimal = Some(hexadecimal).filter(ends)?;
        if let Ok(address) = hexadecimal.parse::<Ipv6Addr>() {
            return Some((hexadecimal.len(), self.address(address.into()).to_string()));
        }
        let parts: Vec<&str> = hexadecimal.split(':').collect();
        if parts.len() != 6 || parts.iter().any(|part| part.len() != 2) {
            return None;
        }
        let next = self.hardware.len() + 1;
        let instead = self.hardware.entry(hexadecimal.to_owned());
        let instead =
            instead.or_insert_with(|| format!("02:00:00:00:{:02x}:{:02x}", next >> 8 & 255, next & 255));
        Some((hexadecimal.len(), instead.clone()))
    }

    fn address(&mut self, address: IpAddr) -> IpAddr {
        let of_documents = matches!(address, IpAddr::V4(address) if address.is_documentation());
        if address.is_loopback() || address.is_unspecified() || of_documents {
            return address;
        }
        let next = self.addresses.len() as u32 + 1;
        *self.addresses.entry(address).or_insert_with(|| match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits(FIRST_IPV4 + next).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(FIRST_IPV6 + u128::from(next)).into(),
        })
    }

    /// Whether a word is a number, a number with its unit, or made of words of Quaver's own.
    fn is_own(&self, word: &str) -> bool {
        let letters: Vec<&str> =
            word.split(|c: char| !c.is_alphabetic()).filter(|part| !part.is_empty()).collect();
        let digits = word.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).count();
        match letters.as_slice() {
            _ if is_number(word) => true,
            [one] if one.chars().count() == 1 => {
                digits == 0 || word.ends_with(one) || (word.starts_with(['p', 'u', 'C']) && word.len() <= 6)
            }
            parts => {
                digits <= 1 && parts.iter().all(|part| self.vocabulary.contains(part.to_lowercase().as_str()))
            }
        }
    }
}

/// A number, or an offset in hexadecimal digits; addresses are longer.
fn is_number(word: &str) -> bool {
    let offset = word
        .strip_prefix("0x")
        .is_some_and(|digits| digits.len() <= 7 && digits.chars().all(|c| c.is_ascii_hexdigit()));
    offset || !word.chars().any(char::is_alphabetic)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn word_length(text: &str) -> usize {
    text.find(|letter| !is_of_word(letter)).unwrap_or(text.len())
}

/// When a run was made and its number, as in its name: `0` is a digit, `x` a hexadecimal one.
const STAMP: &str = "00000000T000000Z-xxxx";

fn is_stamp(text: &str) -> bool {
    let fits = |(shape, letter): (char, char)| match shape {
        '0' => letter.is_ascii_digit(),
        'x' => letter.is_ascii_hexdigit(),
        _ => letter == shape,
    };
    text.is_char_boundary(STAMP.len().min(text.len()))
        && text.len() >= STAMP.len()
        && STAMP.chars().zip(text.chars()).all(fits)
        && !text[STAMP.len()..].starts_with(is_of_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run of `sync` keeps beside its recordings is in no schema.
    #[test]
    fn keys_that_no_schema_has_stay() {
        let mut names = Pseudonyms::new();
        let keys = "objects callers lines chains stacks unknown functions origins spins runtimes without java threads";
        for key in keys.split(' ') {
            assert_eq!(names.key(key), key);
        }
        assert_eq!(names.key("quillon"), "name-1");
    }

    #[test]
    fn a_sentence_keeps_its_own_words_and_numbers() {
        let mut names = Pseudonyms::new();
        let host = names.private("studio");
        let thread = names.private("Web Content");
        assert_eq!((host.as_str(), thread.as_str()), ("name-1", "name-2"));
        for (text, expected) in [
            ("the source skipped 4,761 of its 134,982 slots (3.5 %)", None),
            ("threads stood 30.5 ms in run queues, 7.41 µs each, p99 3.1 ms", None),
            ("thread Web Content (normal) of studio", Some("thread name-2 (normal) of name-1")),
            ("thread Web Contents", Some("thread name-3 Contents")),
            ("from 10.1.2.3:5004 and [fe80::1]:7", Some("from 198.18.0.1:5004 and [2001:db8::2]:7")),
            ("127.0.0.1:80 sent to 192.0.2.2 at 13:51:38", None),
            ("10.1.2.3 again", Some("198.18.0.1 again")),
            ("4f3ab2 c0:ff:ee:00:11:22", Some("name-4 02:00:00:00:00:01")),
            ("measured/chase-20261123T135138Z-e9a7", None),
            ("kworker/u8:2 (vmstat_update)", None),
        ] {
            assert_eq!(names.sentence(text), expected.unwrap_or(text));
        }
    }

    #[test]
    fn what_the_analysis_goes_by_stays_and_the_rest_of_it_does_not() {
        let mut names = Pseudonyms::new();
        for kept in ["ksoftirqd/0", "kworker/1:1H", "migration/1", "rcu_preempt", "quaver-sink"] {
            assert_eq!(names.thread(kept), kept);
        }
        assert_eq!(names.thread("napi/enp3s0-8193"), "napi/name-1-8193");
        assert_eq!(names.thread("main"), "name-2", "a word of ours is no less private as a name");
        assert_eq!(names.symbol("flush_tlb_func.isra.0"), "flush_tlb_func.isra.0");
        assert_eq!(names.symbol("secret_irq_work"), "name-3");
        assert_eq!(names.symbol("bpf_prog_6deef7357e7b4530_acme"), "bpf_name-4");
        assert_eq!(
            names.sentence("work secret_irq_work, bpf_prog_6deef7357e7b4530_acme"),
            "work name-3, bpf_name-4"
        );
        assert_eq!(names.names("lock in push+0x12 (queue.c:7)"), "lock in name-5+0x12 (name-6.name-0:7)");
        for start in KERNEL_THREADS {
            let name = names.thread(&format!("{start}nas7-of-anna"));
            assert!(name.starts_with(start) && !name.contains("anna"), "{start}: {name}");
        }
        for kept in ["irqentry_exit_to_user_mode", "asm_exc_page_fault", "finish_task_switch.isra.0"] {
            let start =
                PASSED_OVER.iter().find(|start| kept.starts_with(**start)).expect("it is passed over");
            assert!(names.symbol(kept).starts_with(start));
        }
    }

    #[test]
    fn of_a_command_the_verb_and_the_options_stay() {
        let names = Pseudonyms::new();
        let of = |line: &str| names.command(line);
        assert_eq!(
            of("quaver chase --for 1s --quiet --output=/srv/alice/runs"),
            "quaver chase --for --quiet --output"
        );
        assert_eq!(of("quaver sync --quiet -- ./orders --account 4711"), "quaver sync --quiet");
        assert_eq!(of("/data/target/quaver chase --for 1s"), "quaver chase --for");
        assert_eq!(of("quaver report /data/run"), "quaver report");
    }
}
