//! Files that pages of nuq have in common.

/// The font Roboto with weight 400, reduced to Latin and Greek letters and common signs.
pub const FONT_REGULAR: &[u8] = include_bytes!("../assets/Roboto-Regular.ttf");

/// The font Roboto with weight 500, reduced in the same way.
pub const FONT_MEDIUM: &[u8] = include_bytes!("../assets/Roboto-Medium.ttf");

/// The script of the light and dark theme. It sets `data-theme` of the root element and handles the button `theme`.
pub const THEME_SCRIPT: &str = include_str!("../assets/theme.js");

/// Colors of both themes, and tooltips, as CSS.
pub const THEME_STYLE: &str = include_str!("../assets/theme.css");
