// Pages of what is kept of a user.

/** Links of the navigation: [text, route]. */
export const nav = [];

export const routes = {};
