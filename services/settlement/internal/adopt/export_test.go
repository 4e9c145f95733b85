package adopt

// Doubled is what a cancel offers.
var Doubled = doubled
