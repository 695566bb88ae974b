//! Numbers of as many bytes as they need: seven bits each, least first, the eighth says that more follow (LEB128).

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A difference with its sign in the lowest bit, so that small ones of both signs are short.
pub(crate) fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes that are read from their front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(octets: &'a [u8], at: usize) -> Self {
        Self { octets, at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.octets.len()
    }

    pub(crate) fn octet(&mut self) -> Result<u8, &'static str> {
        let octet = *self.octets.get(self.at).ok_or("it ends in the middle")?;
        self.at += 1;
        Ok(octet)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, &'static str> {
        let first = self.octet()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..70).step_by(7) {
            let octet = self.octet()?;
            let bits = u64::from(octet & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if octet < 0x80 {
                return Ok(number);
            }
        }
        Err("it has a number of more than 64 bits")
    }

    /// A number that must be at most `most`.
    pub(crate) fn bounded(&mut self, most: u64, what: &'static str) -> Result<u64, &'static str> {
        let number = self.number()?;
        if number > most { Err(what) } else { Ok(number) }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.octets.len());
        let end = end.ok_or("it ends in the middle")?;
        let taken = &self.octets[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_comes_back(number: u64, difference: i64) {
            let mut out = Vec::new();
            put(&mut out, number);
            prop_assert_eq!(Cursor::new(&out, 0).number(), Ok(number));
            prop_assert_eq!(unzigzag(zigzag(difference)), difference);
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(Cursor::new(&[0x80], 0).number(), Err("it ends in the middle"));
        assert!(Cursor::new(&[0xff; 11], 0).number().is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], 0).number().is_err());
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 0).number(),
            Ok(u64::MAX)
        );
    }
}
