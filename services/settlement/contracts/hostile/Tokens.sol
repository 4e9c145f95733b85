// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title A token that keeps 1 percent of each transfer
contract FeeToken is ERC20 {
    constructor() ERC20("Fee", "FEE") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function _update(address from, address to, uint256 value) internal override {
        uint256 fee = from == address(0) || to == address(0) ? 0 : value / 100;
        super._update(from, to, value - fee);
        if (fee != 0) super._update(from, address(0xfee), fee);
    }
}

/// @title A token that says it moved an amount and moves nothing
contract LyingToken is ERC20 {
    constructor() ERC20("Lie", "LIE") {}

    function transferFrom(address, address, uint256) public pure override returns (bool) {
        return true;
    }
}

/// @title A token that returns false where it does not move anything
contract FalseToken is ERC20 {
    constructor() ERC20("False", "FALSE") {}

    function transferFrom(address, address, uint256) public pure override returns (bool) {
        return false;
    }
}

/// @title A token that answers nothing when it has moved an amount, as old tokens do
contract SilentToken {
    mapping(address account => uint256) public balanceOf;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function transfer(address to, uint256 amount) external {
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
    }

    function transferFrom(address from, address to, uint256 amount) external {
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
    }
}

/// @title A token that makes one call of its owner's choice in the middle of a transfer
contract ReentrantToken is ERC20 {
    address private _target;
    bytes private _call;

    /// @notice The call was made, and this is what came back.
    event Reentered(bool success, bytes result);

    constructor() ERC20("Reentrant", "RE") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    /// @notice Sets the call that the next transfer makes.
    function arm(address target, bytes calldata data) external {
        _target = target;
        _call = data;
    }

    /// @notice Makes a call as the token itself, which may be a depositor.
    function act(address target, bytes calldata data) external {
        (bool success, bytes memory result) = target.call(data);
        emit Reentered(success, result);
    }

    function _update(address from, address to, uint256 value) internal override {
        address target = _target;
        if (target != address(0)) {
            _target = address(0);
            (bool success, bytes memory result) = target.call(_call);
            emit Reentered(success, result);
        }
        super._update(from, to, value);
    }
}
