//! The traces that come with Quaver, for whoever has no file of them.

/// Program and trace, as text.
pub const BUNDLED: [(&str, &str); 8] = [
    ("barnes", include_str!("../../traces/barnes.qtrace.txt")),
    ("fmm", include_str!("../../traces/fmm.qtrace.txt")),
    ("lu", include_str!("../../traces/lu.qtrace.txt")),
    ("ocean", include_str!("../../traces/ocean.qtrace.txt")),
    ("radix", include_str!("../../traces/radix.qtrace.txt")),
    ("raytrace", include_str!("../../traces/raytrace.qtrace.txt")),
    ("water-nsquared", include_str!("../../traces/water-nsquared.qtrace.txt")),
    ("water-spatial", include_str!("../../traces/water-spatial.qtrace.txt")),
];
