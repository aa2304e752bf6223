"""The sections of the page, one module each: a certificate in, a piece of the page out."""
