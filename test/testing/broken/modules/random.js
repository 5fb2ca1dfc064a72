export default ({ payload }) => ({ message: `hello ${payload?.text} ${Math.random()}` });
