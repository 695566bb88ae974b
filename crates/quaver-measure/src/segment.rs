//! Writing raw segments ([`quaver_abi::segment`]).
